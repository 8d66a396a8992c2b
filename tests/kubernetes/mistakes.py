"""Mistakes that an author of manifests can make, as changes to whole ones: each with
words that the check that finds it must say."""

import copy
from typing import Any, Callable, Iterator

from checks import Context
from manifests import Object, Pool

Change = Callable[[Context, Pool], Any]


def only(pool: Pool, kind: str) -> Object:
    """The first object of the kind."""
    return pool.of(kind)[0]


def args(pool: Pool, old: str, new: str) -> None:
    """Replaces text in the flags; an empty `new` that is a flag takes it away."""
    changed = [each.replace(old, new) for each in pool.container["args"]]
    pool.container["args"] = [each for each in changed if each]


def endpoint(context: Context) -> Object:
    found: Object = context.monitors[0]["spec"]["endpoints"][0]
    return found


def adapter_rule(context: Context) -> Object:
    found: Object = context.adapter["rules"]["external"][0]
    return found


# Of the stateless pool, unless they say otherwise.
STATELESS: dict[str, tuple[str, Change]] = {
    "a flag that there is not": (
        "no flag --drain-delays", lambda c, p: args(p, "--drain-delay=",
                                                    "--drain-delays=")),
    "a flag twice": (
        "given twice", lambda c, p: p.container["args"].append("--drain-delay=1s")),
    "gRPC on another port": (
        "--grpc-address is not on", lambda c, p: args(p, "0.0.0.0:8001",
                                                      "0.0.0.0:9001")),
    "metrics on the loopback": (
        "--metrics-address is not on", lambda c, p: args(p, "0.0.0.0:8002",
                                                         "127.0.0.1:8002")),
    "a probe of the metrics' port": (
        "readinessProbe asks a port where no gRPC is",
        lambda c, p: p.container["readinessProbe"]["grpc"].update(port=8002)),
    "no liveness probe": (
        "livenessProbe has not one way",
        lambda c, p: p.container.pop("livenessProbe")),
    "a target port that there is not": (
        "no container port grcp",
        lambda c, p: only(p, "Service")["spec"]["ports"][0].update(targetPort="grcp")),
    "a Service of other pods": (
        "Service attn does not select",
        lambda c, p: only(p, "Service")["spec"]["selector"].update(
            {"app.kubernetes.io/name": "atn"})),
    "a Service of both pools": (
        "Service attn selects the pods of sessions too",
        lambda c, p: only(p, "Service")["spec"].update(
            selector={"app.kubernetes.io/name": "attn"})),
    "a workload of other pods": (
        "the workload does not select",
        lambda c, p: p.workload["spec"]["selector"]["matchLabels"].update(a="b")),
    "a disruption budget of all pods": (
        "PodDisruptionBudget does not select",
        lambda c, p: only(p, "PodDisruptionBudget")["spec"].update(selector={})),
    "a network policy of all pods": (
        "NetworkPolicy does not select",
        lambda c, p: only(p, "NetworkPolicy")["spec"].update(podSelector={})),
    "a spread of other pods": (
        "the spread does not select",
        lambda c, p: p.pod["topologySpreadConstraints"][0].update(
            labelSelector={"matchLabels": {"a": "b"}})),
    "a network that everybody reaches": (
        "everybody is let in",
        lambda c, p: only(p, "NetworkPolicy")["spec"]["ingress"][0].pop("from")),
    "a network that opens HTTP": (
        "opens other ports",
        lambda c, p: only(p, "NetworkPolicy")["spec"]["ingress"][0]["ports"].append(
            {"port": "http"})),
    "a network that lets out": (
        "something may go out",
        lambda c, p: only(p, "NetworkPolicy")["spec"].update(egress=[{}])),
    "too little grace": (
        "the grace period is 45 s, expected 50 s",
        lambda c, p: args(p, "--drain-delay=10s", "--drain-delay=15s")),
    "limits beyond requests": (
        "are not the same",
        lambda c, p: p.container["resources"]["limits"].update(cpu=8)),
    "a part of a CPU": (
        "no whole number",
        lambda c, p: (p.container["resources"]["limits"].update(cpu="3500m"),
                      p.container["resources"]["requests"].update(cpu="3500m"))),
    "more memory for calls than there is": (
        "the memory limit is",
        lambda c, p: args(p, "--max-inflight-bytes=2147483648",
                          "--max-inflight-bytes=4294967296")),
    "a budget by default": (
        "no budget --max-layer-bytes",
        lambda c, p: args(p, "--max-layer-bytes=268435456", "")),
    "the latest image": (
        "has no version", lambda c, p: p.container.update(image="attn:latest")),
    "an image without a tag": (
        "has no version", lambda c, p: p.container.update(image="host:5000/attn")),
    "a root that can be written": (
        "its root can be written",
        lambda c, p: p.container["securityContext"].pop("readOnlyRootFilesystem")),
    "a capability": (
        "keeps capabilities",
        lambda c, p: p.container["securityContext"]["capabilities"].update(
            add=["NET_ADMIN"])),
    "root": (
        "not run as the image's user",
        lambda c, p: p.pod["securityContext"].update(runAsUser=0)),
    "a token for the cluster": (
        "a token for the cluster",
        lambda c, p: p.pod.pop("automountServiceAccountToken")),
    "an account that there is not": (
        "service account is not", lambda c, p: p.pod.update(
            serviceAccountName="default")),
    "a file that is on no volume": (
        "is on no volume",
        lambda c, p: p.container["args"].append("--layer-dir=/var/lib/layers/x")),
    "an update that takes one away": (
        "before there is another",
        lambda c, p: p.workload["spec"]["strategy"]["rollingUpdate"].update(
            maxUnavailable=1)),
    "connections that never age": (
        "do not learn of new pods", lambda c, p: args(p, "--max-connection-age=10m",
                                                      "")),
    "sessions on any server": (
        "where no call finds them", lambda c, p: args(p, "--max-session-bytes=0",
                                                      "--max-session-bytes=1024")),
    "a metric that nobody serves": (
        "does not serve attn_queue_age",
        lambda c, p: only(p, "HorizontalPodAutoscaler")["spec"]["metrics"][0][
            "external"]["metric"].update(name="attn_queue_age")),
    "a metric of another pool": (
        "looks at the job attn-sessions",
        lambda c, p: only(p, "HorizontalPodAutoscaler")["spec"]["metrics"][0][
            "external"]["metric"]["selector"]["matchLabels"].update(
                job="attn-sessions")),
    "an autoscaler of something else": (
        "scales something else",
        lambda c, p: only(p, "HorizontalPodAutoscaler")["spec"][
            "scaleTargetRef"].update(name="other")),
    "a count beside the autoscaler's": (
        "takes back", lambda c, p: p.workload["spec"].update(replicas=3)),
    "a series that no rule records": (
        "is no recording rule",
        lambda c, p: adapter_rule(c).update(
            seriesQuery='{__name__="job:attn_queue:max"}')),
    "a misspelt field of the adapter": (
        "has the fields", lambda c, p: adapter_rule(c).update(metricQuery="")),
    "a monitor of no Service": (
        "0 Services are scraped",
        lambda c, p: c.monitors[0]["spec"]["selector"]["matchLabels"].update(a="b")),
    "a monitor of both Services": (
        "2 Services are scraped",
        lambda c, p: c.monitors[0]["spec"]["selector"]["matchLabels"].pop(
            "attn-scrape")),
    "a monitor of another port": (
        "asks for the port grpc", lambda c, p: endpoint(c).update(port="grpc")),
    "a job that no rule knows": (
        "do not know the job",
        lambda c, p: endpoint(c)["relabelings"][0].update(replacement="attention")),
}

SESSIONS: dict[str, tuple[str, Change]] = {
    "no time to write sessions": (
        "the grace period is",
        lambda c, p: p.pod.update(terminationGracePeriodSeconds=45)),
    "a governing Service that there is not": (
        "no headless Service",
        lambda c, p: p.workload["spec"].update(serviceName="attn-sessions")),
    "names of ready pods only": (
        "has no name",
        lambda c, p: [each["spec"].pop("publishNotReadyAddresses", None)
                      for each in p.of("Service")]),
    "another Service's address": (
        "--advertise-address is",
        lambda c, p: args(p, "attn-headless-sessions", "attn-headless")),
    "an address without the pod's name": (
        "does not know its name", lambda c, p: p.container["env"].pop()),
    "one pod after the other": (
        "pods wait for each other",
        lambda c, p: p.workload["spec"].update(podManagementPolicy="OrderedReady")),
    "a volume that sessions outgrow": (
        "may outgrow",
        lambda c, p: p.workload["spec"]["volumeClaimTemplates"][0]["spec"][
            "resources"]["requests"].update(storage="20Gi")),
    "sessions on no volume": (
        "is on no volume",
        lambda c, p: p.container["volumeMounts"][0].update(mountPath="/data")),
    "a name of the other pool": (
        "Service attn is stateless's too",
        lambda c, p: only(p, "Service")["metadata"].update(name="attn")),
}

# Of a pool with TLS.
WITH_TLS: dict[str, tuple[str, Change]] = {
    "a gRPC probe of a port with TLS": (
        "livenessProbe does not speak as the server",
        lambda c, p: p.container.update(
            livenessProbe={"grpc": {"port": 8001, "service": ""}})),
    "a probe in clear text": (
        "readinessProbe speaks no TLS",
        lambda c, p: p.container["readinessProbe"]["httpGet"].pop("scheme")),
    "readiness that is liveness": (
        "readinessProbe asks for /healthz",
        lambda c, p: p.container["readinessProbe"]["httpGet"].update(path="/healthz")),
    "a key that everybody can read": (
        "can be read by others",
        lambda c, p: p.pod["volumes"][0]["secret"].pop("defaultMode")),
    "a certificate that is not mounted": (
        "are not the same", lambda c, p: p.pod["volumes"].pop()),
    "a Service that says clear text": (
        "says clear text",
        lambda c, p: only(p, "Service")["spec"]["ports"][0].update(
            appProtocol="kubernetes.io/h2c")),
}

# What the published schemas must refuse, by kind.
SCHEMA: dict[str, dict[str, Callable[[Object], Any]]] = {
    "Deployment": {
        "a misspelt field of the spec": lambda o: o["spec"].update(minReadySecond=5),
        "a number in words": lambda o: o["spec"].update(minReadySeconds="5"),
        "a misspelt probe": lambda o: o["spec"]["template"]["spec"]["containers"][
            0].update(readynessProbe={"grpc": {"port": 8001}}),
        "a probe's port by name": lambda o: o["spec"]["template"]["spec"][
            "containers"][0]["livenessProbe"]["grpc"].update(port="grpc"),
        "a misspelt limit": lambda o: o["spec"]["template"]["spec"]["containers"][
            0]["resources"].update(limit={"cpu": 4}),
        "no selector": lambda o: o["spec"].pop("selector"),
        "a misspelt security setting": lambda o: o["spec"]["template"]["spec"][
            "containers"][0]["securityContext"].update(readOnlyRootFileSystem=True),
    },
    "StatefulSet": {
        "claims that are no list": lambda o: o["spec"].update(
            volumeClaimTemplates={}),
        "a misspelt policy": lambda o: o["spec"].update(
            podManagmentPolicy="Parallel"),
    },
    "Service": {
        "a port in words": lambda o: o["spec"]["ports"][0].update(port="8001"),
        "a misspelt selector": lambda o: o["spec"].update(selectors={}),
    },
    "HorizontalPodAutoscaler": {
        "no most": lambda o: o["spec"].pop("maxReplicas"),
        "a misspelt metric": lambda o: o["spec"]["metrics"][0].update(externl={}),
        "a misspelt window": lambda o: o["spec"]["behavior"]["scaleDown"].update(
            stabilisationWindowSeconds=300),
    },
    "PodDisruptionBudget": {
        "a misspelt field": lambda o: o["spec"].update(maxUnavailble=1),
    },
    "NetworkPolicy": {
        "a peer in words": lambda o: o["spec"]["ingress"][0].update({"from": "all"}),
        "a misspelt peer": lambda o: o["spec"]["ingress"][0]["from"][0].update(
            podSelectors={}),
    },
    "ServiceMonitor": {
        "a misspelt endpoint": lambda o: o["spec"]["endpoints"][0].update(
            intervall="5s"),
        "an interval in no unit": lambda o: o["spec"]["endpoints"][0].update(
            interval="5"),
        "no selector": lambda o: o["spec"].pop("selector"),
    },
    "PrometheusRule": {
        "a rule without an expression": lambda o: o["spec"]["groups"][0]["rules"][
            0].pop("expr"),
        "a misspelt annotation": lambda o: o["spec"]["groups"][0]["rules"][
            0].update(annotation={}),
    },
}


def planted(context: Context, name: str, mistakes: dict[str, tuple[str, Change]]
            ) -> Iterator[tuple[str, str, Context, Pool]]:
    """Each mistake's name and words, in a copy of everything with it."""
    for mistake, (words, change) in mistakes.items():
        changed = copy.deepcopy(context)
        pool = next(each for each in changed.pools if each.name == name)
        change(changed, pool)
        if changed == context:
            raise ValueError(f"{mistake}: changes nothing")
        yield mistake, words, changed, pool
