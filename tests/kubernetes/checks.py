"""What manifests must agree about among themselves, with the server and with the
rules of deploy/prometheus. Each check yields faults in words."""

import math
import re
from dataclasses import dataclass
from typing import Any, Callable, Iterator

from manifests import Object, Pool, quantity, seconds, selects

MIB = 2**20
# server/README.md, "Memory".
BUDGETS = ("max-inflight-bytes", "max-transport-bytes", "max-layer-bytes",
           "max-session-bytes")
# server/app/server.cc: twice five seconds for replies that are on their way.
LAST_REPLIES_SECONDS = 10
# What a modest network volume writes.
SPILL_BYTES_PER_SECOND = 64 * MIB
FILE_FLAGS = ("tls-cert", "tls-key", "auth-token-file", "session-dir", "layer-dir")
ADDRESSES = {"grpc": "grpc-address", "metrics": "metrics-address",
             "http": "http-address"}


@dataclass
class Context:
    pools: list[Pool]
    # What monitoring/ has.
    monitors: list[Object]
    adapter: Object
    # Of the server: names of its flags, as --help prints them.
    flags: set[str]
    # Of deploy/prometheus: names of recorded series; text of all rules.
    records: set[str]
    rules: str

    def others(self, pool: Pool) -> list[Pool]:
        """Pools of another kind; variants of one are one pool."""
        return [each for each in self.pools
                if each.labels != pool.labels]


def flags_are_the_servers(context: Context, pool: Pool) -> Iterator[str]:
    for argument in pool.container["args"]:
        match = re.fullmatch(r"--([a-z-]+)=(.*)", argument)
        if match is None:
            yield f"{argument} is not of the form --flag=value"
        elif match[1] not in context.flags:
            yield f"the server has no flag --{match[1]}"
    if len(pool.flags) != len(pool.container["args"]):
        yield "a flag is given twice"


def ports_are_the_flags(_: Context, pool: Pool) -> Iterator[str]:
    if set(pool.ports) != set(ADDRESSES):
        yield f"the container's ports are {sorted(pool.ports)}"
    for name, flag in ADDRESSES.items():
        host, port = pool.flags.get(flag, ":").rsplit(":", 1)
        if host != "0.0.0.0" or port != str(pool.ports.get(name)):
            yield f"--{flag} is not on the container's port {name}"


def probes_ask_the_server(_: Context, pool: Pool) -> Iterator[str]:
    tls = "tls-cert" in pool.flags
    for name, probe in pool.probes():
        if ("grpc" in probe) == ("httpGet" in probe):
            yield f"{name} has not one way to ask"
        elif tls != ("httpGet" in probe):
            yield f"{name} does not speak as the server does"
        elif tls:
            path = "/healthz" if name == "livenessProbe" else "/readyz"
            if pool.port(probe["httpGet"]["port"]) != pool.ports.get("http"):
                yield f"{name} asks a port where no HTTP is"
            if probe["httpGet"].get("scheme") != "HTTPS":
                yield f"{name} speaks no TLS"
            if probe["httpGet"]["path"] != path:
                yield f"{name} asks for {probe['httpGet']['path']}"
        elif probe["grpc"]["port"] != pool.ports.get("grpc"):
            yield f"{name} asks a port where no gRPC is"


def services_reach_the_pods(context: Context, pool: Pool) -> Iterator[str]:
    headless = 0
    for service in pool.of("Service"):
        name, spec = service["metadata"]["name"], service["spec"]
        headless += spec.get("clusterIP") == "None"
        yield from selector_faults(context, pool, f"Service {name}",
                                   {"matchLabels": spec.get("selector", {})})
        for port in spec["ports"]:
            if pool.port(port.get("targetPort", port["port"])) is None:
                yield f"Service {name}: no container port {port['targetPort']}"
            elif pool.port(port["targetPort"]) != port["port"]:
                yield f"Service {name}: {port['name']} changes its number"
            if "tls-cert" in pool.flags and "h2c" in port.get("appProtocol", ""):
                yield f"Service {name} says clear text where TLS is"
    if headless != 1 or len(pool.of("Service")) != 2:
        yield "not one Service with a cluster IP and one without"


def selector_faults(context: Context, pool: Pool, name: str,
                    selector: Any) -> Iterator[str]:
    if not selects(selector, pool.labels):
        yield f"{name} does not select the pods"
    for other in context.others(pool):
        if selects(selector, other.labels):
            yield f"{name} selects the pods of {other.name} too"


def selectors_take_this_pool(context: Context, pool: Pool) -> Iterator[str]:
    yield from selector_faults(context, pool, "the workload",
                               pool.workload["spec"]["selector"])
    for each, key in (("PodDisruptionBudget", "selector"),
                      ("NetworkPolicy", "podSelector")):
        if len(pool.of(each)) != 1:
            yield f"not one {each}"
        for found in pool.of(each):
            yield from selector_faults(context, pool, each, found["spec"].get(key))
    spread = pool.pod.get("topologySpreadConstraints", [])
    if {each["topologyKey"] for each in spread} != {
            "kubernetes.io/hostname", "topology.kubernetes.io/zone"}:
        yield "the pods are not spread over nodes and zones"
    for constraint in spread:
        yield from selector_faults(context, pool, "the spread",
                                   constraint["labelSelector"])


def pools_have_names_of_their_own(context: Context, pool: Pool) -> Iterator[str]:
    def names(of: Pool) -> set[tuple[str, str]]:
        return {(each["kind"], each["metadata"]["name"]) for each in of.objects}
    for other in context.others(pool):
        for kind, name in names(pool) & names(other):
            yield f"{kind} {name} is {other.name}'s too"


def network_is_closed(_: Context, pool: Pool) -> Iterator[str]:
    for policy in pool.of("NetworkPolicy"):
        spec = policy["spec"]
        if set(spec.get("policyTypes", [])) != {"Ingress", "Egress"}:
            yield "the policy is not about both directions"
        if spec.get("egress"):
            yield "something may go out"
        opened = []
        for rule in spec.get("ingress", []):
            if not rule.get("from") or not all(
                    peer.get("podSelector", {}).get("matchExpressions") or
                    peer.get("namespaceSelector", {}).get("matchExpressions")
                    for peer in rule["from"]):
                yield "everybody is let in"
            for port in rule.get("ports", [{}]):
                opened.append(pool.port(port.get("port")))
        if sorted(opened, key=str) != sorted((pool.ports.get("grpc"),
                                              pool.ports.get("metrics")), key=str):
            yield "the policy opens other ports than those of gRPC and metrics"


def grace_is_long_enough(_: Context, pool: Pool) -> Iterator[str]:
    flags = pool.flags
    for flag in ("drain-delay", "drain-timeout", "max-session-bytes"):
        if flag not in flags:
            yield f"the grace period goes by --{flag}, which is not given"
            return
    spill = int(flags["max-session-bytes"]) if "session-dir" in flags else 0
    wanted = (seconds(flags["drain-delay"]) + seconds(flags["drain-timeout"]) +
              LAST_REPLIES_SECONDS + math.ceil(spill / SPILL_BYTES_PER_SECOND))
    grace = pool.pod.get("terminationGracePeriodSeconds", 30)
    if grace != wanted:
        yield f"the grace period is {grace} s, expected {wanted:.0f} s"


def resources_are_guaranteed(_: Context, pool: Pool) -> Iterator[str]:
    resources = pool.container.get("resources", {})
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    if set(limits) != {"cpu", "memory"} or requests != limits:
        yield "requests and limits of CPU and memory are not the same"
        return
    if quantity(limits["cpu"]) % 1 != 0:
        yield "the CPU limit is no whole number"
    missing = [flag for flag in BUDGETS if flag not in pool.flags]
    if missing:
        yield f"no budget --{missing[0]}"
        return
    budgets = sum(int(pool.flags[flag]) for flag in BUDGETS)
    wanted = max(1.15 * budgets, budgets + 128 * MIB)
    if not wanted <= quantity(limits["memory"]) <= wanted + 512 * MIB:
        yield (f"the memory limit is {limits['memory']}, expected "
               f"{wanted / MIB:.0f}Mi or a little more")


def image_is_named(_: Context, pool: Pool) -> Iterator[str]:
    image = pool.container["image"]
    if not re.search(r"(:[^/:]+|@sha256:[0-9a-f]{64})$", image) or \
            image.endswith(":latest"):
        yield f"the image {image} has no version"


def pod_is_confined(_: Context, pool: Pool) -> Iterator[str]:
    """The profile "restricted" of the Pod Security Standards, and a read-only root."""
    pod, container = pool.pod, pool.container
    security = pod.get("securityContext", {})
    if security.get("runAsNonRoot") is not True or security.get("runAsUser") != 10001:
        yield "it does not run as the image's user"
    if security.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield "no seccomp profile"
    own = container.get("securityContext", {})
    if own.get("readOnlyRootFilesystem") is not True:
        yield "its root can be written"
    if own.get("allowPrivilegeEscalation") is not False:
        yield "it can gain privileges"
    if own.get("capabilities") != {"drop": ["ALL"]}:
        yield "it keeps capabilities"
    if pod.get("automountServiceAccountToken") is not False:
        yield "it has a token for the cluster"
    accounts = {each["metadata"]["name"] for each in pool.of("ServiceAccount")}
    if pod.get("serviceAccountName") not in accounts:
        yield "its service account is not among the objects"


def files_are_mounted(_: Context, pool: Pool) -> Iterator[str]:
    mounts = {each["name"]: each for each in pool.container.get("volumeMounts", [])}
    claims = pool.workload["spec"].get("volumeClaimTemplates", [])
    volumes = {each["name"]: each for each in pool.pod.get("volumes", [])}
    named = set(volumes) | {each["metadata"]["name"] for each in claims}
    if set(mounts) != named:
        yield f"mounts {sorted(mounts)} and volumes {sorted(named)} are not the same"
    for flag in FILE_FLAGS:
        path = pool.flags.get(flag)
        if path and not any(path.startswith(each["mountPath"] + "/")
                            for each in mounts.values()):
            yield f"--{flag}={path} is on no volume"
    for volume in volumes.values():
        if volume.get("secret", {}).get("defaultMode") != 0o440 or \
                pool.pod["securityContext"].get("fsGroup") != 10001:
            yield f"the secret {volume['name']} can be read by others, or not at all"
    for claim in claims:
        room = quantity(claim["spec"]["resources"]["requests"]["storage"])
        if int(pool.flags.get("max-spill-bytes", 0)) not in range(1, int(room)):
            yield "sessions on disk may outgrow the volume"


def update_loses_nobody(_: Context, pool: Pool) -> Iterator[str]:
    spec = pool.workload["spec"]
    if pool.workload["kind"] == "Deployment":
        rolling = spec.get("strategy", {}).get("rollingUpdate", {})
        if rolling.get("maxUnavailable") != 0 or rolling.get("maxSurge") != 1:
            yield "an update takes a server away before there is another"
    elif spec.get("podManagementPolicy") != "Parallel":
        yield "pods wait for each other"
    for budget in pool.of("PodDisruptionBudget"):
        if budget["spec"].get("maxUnavailable") != 1:
            yield "a drained node may take several servers at once"
    if seconds(pool.flags.get("max-connection-age", "0s")) == 0:
        yield "clients that balance by themselves do not learn of new pods"


def sessions_have_owners(_: Context, pool: Pool) -> Iterator[str]:
    flags = pool.flags
    if pool.workload["kind"] == "Deployment":
        if flags.get("max-session-bytes") != "0":
            yield "sessions would be where no call finds them"
        return
    spec = pool.workload["spec"]
    headless = {each["metadata"]["name"]: each["spec"] for each in pool.of("Service")
                if each["spec"].get("clusterIP") == "None"}
    governing = headless.get(spec["serviceName"])
    if governing is None:
        yield f"there is no headless Service {spec['serviceName']}"
    elif governing.get("publishNotReadyAddresses") is not True:
        yield "a pod that ends or begins has no name"
    wanted = (f"$(POD_NAME).{spec['serviceName']}.$(POD_NAMESPACE).svc:"
              f"{pool.ports['grpc']}")
    if flags.get("advertise-address") != wanted:
        yield f"--advertise-address is {flags.get('advertise-address')}"
    fields = {each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"]
              for each in pool.container.get("env", [])}
    if fields != {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}:
        yield "the pod does not know its name"


def autoscaler_finds_its_numbers(context: Context, pool: Pool) -> Iterator[str]:
    served = {each["name"]["as"] for each in context.adapter["rules"]["external"]}
    for scaler in pool.of("HorizontalPodAutoscaler"):
        target = scaler["spec"]["scaleTargetRef"]
        workload = pool.workload
        if (target["kind"], target["name"], target["apiVersion"]) != (
                workload["kind"], workload["metadata"]["name"],
                workload["apiVersion"]):
            yield "the autoscaler scales something else"
        if "replicas" in workload["spec"]:
            yield "each apply takes back what the autoscaler did"
        for metric in scaler["spec"]["metrics"]:
            asked = metric["external"]["metric"]
            if asked["name"] not in served:
                yield f"the adapter does not serve {asked['name']}"
            job = asked.get("selector", {}).get("matchLabels", {}).get("job")
            if job not in jobs_of(context, pool):
                yield f"the autoscaler looks at the job {job}"
            if metric["external"]["target"]["type"] != "Value":
                yield f"{asked['name']} is of the whole pool, not of a pod"
    if pool.workload["kind"] == "Deployment" and \
            not pool.of("HorizontalPodAutoscaler"):
        yield "there is no autoscaler"


def adapter_serves_recorded_series(context: Context, _: Pool) -> Iterator[str]:
    for rule in context.adapter["rules"]["external"]:
        if set(rule) != {"seriesQuery", "resources", "name", "metricsQuery"}:
            yield f"the adapter's rule has the fields {sorted(rule)}"
        match = re.fullmatch(r'\{__name__="(.*)"\}', rule["seriesQuery"])
        if match is None or match[1] not in context.records:
            yield f"{rule['seriesQuery']} is no recording rule"
        if rule["resources"] != {"namespaced": False}:
            yield "the adapter looks for a namespace, which the rules do not have"
        for part in ("<<.Series>>", "<<.LabelMatchers>>", "by (job)"):
            if part not in rule["metricsQuery"]:
                yield f"the adapter's query has no {part}"


def jobs_of(context: Context, pool: Pool) -> list[str]:
    return [relabeling["replacement"]
            for monitor in monitors_of(context, pool)
            for endpoint in monitor["spec"]["endpoints"]
            for relabeling in endpoint.get("relabelings", [])
            if relabeling.get("targetLabel") == "job"]


def monitors_of(context: Context, pool: Pool) -> list[Object]:
    return [monitor for monitor in context.monitors
            if any(selects(monitor["spec"]["selector"],
                           service["metadata"].get("labels", {}))
                   for service in pool.of("Service"))]


def pool_is_scraped_once(context: Context, pool: Pool) -> Iterator[str]:
    monitors = monitors_of(context, pool)
    services = [service for monitor in monitors for service in pool.of("Service")
                if selects(monitor["spec"]["selector"], service["metadata"]["labels"])]
    if len(services) != 1:
        yield f"{len(services)} Services are scraped, expected one"
        return
    offered = {port["name"] for port in services[0]["spec"]["ports"]}
    for endpoint in monitors[0]["spec"]["endpoints"]:
        if endpoint["port"] not in offered or endpoint["port"] != "metrics":
            yield f"the monitor asks for the port {endpoint['port']}"
    jobs = jobs_of(context, pool)
    known = re.findall(r'job=~"([^"]*)"', context.rules)
    if len(jobs) != 1 or not known or not all(
            re.fullmatch(pattern, jobs[0]) for pattern in known):
        yield f"the rules do not know the job {jobs}"


Check = Callable[[Context, Pool], Iterator[str]]
CHECKS: tuple[Check, ...] = (
    flags_are_the_servers, ports_are_the_flags, probes_ask_the_server,
    services_reach_the_pods, selectors_take_this_pool,
    pools_have_names_of_their_own, network_is_closed, grace_is_long_enough,
    resources_are_guaranteed, image_is_named, pod_is_confined, files_are_mounted,
    update_loses_nobody, sessions_have_owners, autoscaler_finds_its_numbers,
    adapter_serves_recorded_series, pool_is_scraped_once)
