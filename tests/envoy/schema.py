"""Envoy's published configuration schema: YAML becomes the protobuf message that
Envoy reads, and every rule that the schema's options state is held.

The rules are those of protoc-gen-validate (validate/validate.proto). One that is not
known here is an error, so that none is passed over."""

import pathlib
import re
import subprocess
from typing import Any, Iterator

from google.protobuf import (  # type: ignore[import]
    descriptor_pb2, descriptor_pool, json_format, message_factory)
from google.protobuf.descriptor import FieldDescriptor  # type: ignore[import]
from google.protobuf.message import Message  # type: ignore[import]

BOOTSTRAP = "envoy.config.bootstrap.v3.Bootstrap"
# What the file may name in its "@type"s, and what it is.
FILES = (
    "envoy/config/bootstrap/v3/bootstrap.proto",
    "envoy/extensions/filters/http/router/v3/router.proto",
    "envoy/extensions/filters/network/http_connection_manager/v3/"
    "http_connection_manager.proto",
    "envoy/extensions/retry/host/previous_hosts/v3/previous_hosts.proto",
    "envoy/extensions/transport_sockets/tls/v3/tls.proto",
    "envoy/extensions/upstreams/http/v3/http_protocol_options.proto",
)
HEADER = re.compile(r":?[0-9a-zA-Z!#$%&'*+.^_|~`-]+")


def with_ignore_empty(validate: str) -> str:
    """The package's validate.proto is older than its Envoy: adds the one field that
    is missed, under a number that is free."""
    return re.sub(r"(message (?:\w+Rules) \{\n)",
                  r"\1  optional bool ignore_empty = 99;\n", validate)


def compile_schema(deps: pathlib.Path, work: pathlib.Path) -> bytes:
    """A FileDescriptorSet of FILES and all that they import."""
    patched = work / "validate"
    patched.mkdir(parents=True, exist_ok=True)
    original = deps / "protoc-gen-validate/validate/validate.proto"
    (patched / "validate.proto").write_text(
        with_ignore_empty(original.read_text(encoding="utf-8")), encoding="utf-8")
    output = work / "schema.pb"
    subprocess.run(
        ["protoc", f"-I{work}", f"-I{deps / 'envoy-api'}", f"-I{deps / 'xds'}",
         f"-I{deps / 'googleapis'}", "-I/usr/include", "--include_imports",
         f"--descriptor_set_out={output}", *FILES], check=True)
    return output.read_bytes()


class Schema:
    """Not thread-safe; one a process, as protobuf keeps types for all of it."""

    def __init__(self, compiled: bytes):
        pool = descriptor_pool.Default()
        for file in descriptor_pb2.FileDescriptorSet.FromString(compiled).file:
            pool.AddSerializedFile(file.SerializeToString())
        self._pool = pool
        self._factory = message_factory.MessageFactory(pool)
        for options, name in ((descriptor_pb2.FieldOptions, "validate.rules"),
                              (descriptor_pb2.OneofOptions, "validate.required")):
            options.RegisterExtension(pool.FindExtensionByName(name))
        self._rules = pool.FindExtensionByName("validate.rules")
        self._required = pool.FindExtensionByName("validate.required")

    def parse(self, tree: Any) -> Message:
        """The Bootstrap of a YAML tree; ParseError for what the schema has not."""
        message = self._factory.GetPrototype(
            self._pool.FindMessageTypeByName(BOOTSTRAP))()
        json_format.ParseDict(tree, message, descriptor_pool=self._pool)
        return message

    def faults(self, message: Message, path: str = "") -> Iterator[str]:
        """What breaks a rule of the schema, or is deprecated, by its path."""
        if message.DESCRIPTOR.full_name == "google.protobuf.Any":
            name = message.type_url.split("/")[-1]
            inner = self._factory.GetPrototype(
                self._pool.FindMessageTypeByName(name)).FromString(message.value)
            yield from self.faults(inner, path)
            return
        for oneof in message.DESCRIPTOR.oneofs:
            options = self._reread(oneof.GetOptions())
            if options.Extensions[self._required] and \
                    message.WhichOneof(oneof.name) is None:
                yield f"{path}: {oneof.name} is required"
        for field in message.DESCRIPTOR.fields:
            yield from self._field_faults(message, field, f"{path}.{field.name}")

    @staticmethod
    def _reread(options: Any) -> Any:
        """With the extensions that were registered since."""
        return type(options).FromString(options.SerializeToString())

    def _field_faults(self, message: Message, field: FieldDescriptor,
                      path: str) -> Iterator[str]:
        options = self._reread(field.GetOptions())
        present = field in [each for each, _ in message.ListFields()]
        if present and options.deprecated:
            yield f"{path}: is deprecated"
        if not present and field.containing_oneof is not None:
            # Another one was chosen.
            return
        rules = options.Extensions[self._rules]
        value = getattr(message, field.name)
        for found in rule_faults(rules, value, present, field):
            yield f"{path}: {found}"
        if not present or field.message_type is None:
            return
        if field.label != FieldDescriptor.LABEL_REPEATED:
            yield from self.faults(value, path)
        elif not field.message_type.GetOptions().map_entry:
            for index, item in enumerate(value):
                yield from self.faults(item, f"{path}[{index}]")
        elif field.message_type.fields_by_name["value"].message_type is not None:
            for key, item in value.items():
                yield from self.faults(item, f"{path}[{key}]")


def rule_faults(rules: Any, value: Any, present: bool,
                field: FieldDescriptor | None) -> Iterator[str]:
    """What is wrong with the value of one field, or of one item of a list."""
    if rules.HasField("message") and rules.message.required and not present:
        yield "is required"
    kind = rules.WhichOneof("type")
    if kind is None:
        return
    own = getattr(rules, kind)
    stated = {each.name: limit for each, limit in own.ListFields()}
    if stated.pop("required", False) and not present:
        yield "is required"
    optional = field is not None and field.message_type is not None and \
        field.label != FieldDescriptor.LABEL_REPEATED
    if (stated.pop("ignore_empty", False) or optional) and not present:
        return
    if optional and field is not None and field.message_type.full_name.endswith(
            "Value"):
        # A wrapper: the rule is about what is inside.
        value = value.value
    if kind == "enum" and stated.pop("defined_only", False) and field is not None:
        numbers = value if field.label == FieldDescriptor.LABEL_REPEATED else [value]
        for number in numbers:
            if number not in field.enum_type.values_by_number:
                yield f"{number} is not defined"
    for rule, limit in stated.items():
        if rule == "items":
            for item in value:
                yield from rule_faults(limit, item, True, None)
        elif not holds(rule, limit, value):
            yield f"{value!r} breaks {rule} {limit!r}"


def nanoseconds(value: Any) -> Any:
    return value.ToNanoseconds() if hasattr(value, "ToNanoseconds") else value


def holds(rule: str, limit: Any, value: Any) -> bool:
    if rule in ("lt", "lte", "gt", "gte", "const"):
        a, b = nanoseconds(value), nanoseconds(limit)
        return bool({"lt": a < b, "lte": a <= b, "gt": a > b, "gte": a >= b,
                     "const": a == b}[rule])
    if rule in ("min_len", "min_items", "min_pairs"):
        return bool(len(value) >= limit)
    if rule in ("max_len", "max_items", "max_pairs"):
        return bool(len(value) <= limit)
    if rule == "min_bytes":
        return bool(len(value.encode()) >= limit)
    if rule == "max_bytes":
        return bool(len(value.encode()) <= limit)
    if rule == "prefix":
        return bool(value.startswith(limit))
    if rule == "pattern":
        return re.search(limit, value) is not None
    if rule in ("in", "not_in"):
        return (value in limit) == (rule == "in")
    if rule == "unique":
        return len(set(map(str, value))) == len(value)
    if rule == "strict":
        # Of well_known_regex; it is held strictly below in any case.
        return True
    if rule == "well_known_regex":
        return not value or HEADER.fullmatch(value) is not None or limit == 2
    raise ValueError(f"the rule {rule} is not known here")
