"""Rendered manifests: what runs the pods of a pool, and what belongs to it."""

import re
from dataclasses import dataclass
from typing import Any, Iterator

import yaml  # type: ignore[import]

Object = dict[str, Any]

UNITS = {"": 1, "m": 1e-3, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
         "k": 1e3, "M": 1e6, "G": 1e9}
SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def quantity(value: Any) -> float:
    """A Kubernetes quantity, as 3328Mi or 100m, as a number."""
    match = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", str(value))
    if match is None or match[2] not in UNITS:
        raise ValueError(f"no quantity: {value}")
    return float(match[1]) * UNITS[match[2]]


def seconds(text: str) -> float:
    """A duration of a flag, as 10s or 1m30s."""
    parts = re.findall(r"([0-9.]+)(ms|s|m|h)", text)
    if "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"no duration: {text}")
    return sum(float(number) * SECONDS[unit] for number, unit in parts)


def load(text: str) -> list[Object]:
    return [each for each in yaml.safe_load_all(text) if each is not None]


@dataclass
class Pool:
    """What one overlay renders to."""
    name: str
    objects: list[Object]

    def of(self, *kinds: str) -> list[Object]:
        return [each for each in self.objects if each["kind"] in kinds]

    @property
    def workload(self) -> Object:
        (only,) = self.of("Deployment", "StatefulSet")
        return only

    @property
    def template(self) -> Object:
        template: Object = self.workload["spec"]["template"]
        return template

    @property
    def pod(self) -> Object:
        spec: Object = self.template["spec"]
        return spec

    @property
    def labels(self) -> dict[str, str]:
        labels: dict[str, str] = self.template["metadata"]["labels"]
        return labels

    @property
    def container(self) -> Object:
        (only,) = self.pod["containers"]
        container: Object = only
        return container

    @property
    def flags(self) -> dict[str, str]:
        """--a-b=c as a-b: c."""
        return dict(argument.removeprefix("--").split("=", 1)
                    for argument in self.container["args"])

    @property
    def ports(self) -> dict[str, int]:
        return {each["name"]: each["containerPort"]
                for each in self.container["ports"]}

    def probes(self) -> Iterator[tuple[str, Object]]:
        for name in ("startupProbe", "readinessProbe", "livenessProbe"):
            yield name, self.container.get(name, {})

    def port(self, given: Any) -> int | None:
        """The container's port of that name or number."""
        if isinstance(given, int):
            return given if given in self.ports.values() else None
        return self.ports.get(given)


def selects(selector: Object | None, labels: dict[str, str]) -> bool:
    """Whether a selector of labels alone, that has any, takes the labels."""
    wanted = (selector or {}).get("matchLabels", {})
    return bool(wanted) and wanted.items() <= labels.items()
