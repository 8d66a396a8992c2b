#!/usr/bin/env python3
"""Writes what an image is made of as CycloneDX 1.5, in JSON.

usage: sbom.py ROOT VERSION >FILE

ROOT is an image's root as collect.sh makes it. A component for attn and one for
each package of Debian: name, version, source package, purl, the licences that its
copyright file names, and the SHA-256 of each of its files that the image holds. The
same root gives the same bytes.

https://cyclonedx.org/docs/1.5/json/, and for purl
https://github.com/package-url/purl-spec.
"""

import email
import hashlib
import json
import pathlib
import re
import sys
import urllib.parse
import uuid

_STATUS = "var/lib/dpkg/status.d"
_PROGRAMS = ("usr/local/bin/attn", "usr/local/bin/attn-server")
_LICENCE = re.compile(r"^License:[ \t]*(\S.*)$", re.MULTILINE)


def sha256(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def file_component(root: pathlib.Path, name: str) -> dict:
    return {
        "type": "file",
        "name": f"/{name}",
        "hashes": [{"alg": "SHA-256", "content": sha256(root / name)}],
    }


def licences(root: pathlib.Path, package: str) -> list[dict]:
    """The short names of a machine-readable copyright file, or where the file is."""
    path = root / "usr/share/doc" / package / "copyright"
    found = sorted(set(_LICENCE.findall(path.read_text("utf-8", "replace"))))
    names = found or [f"see /usr/share/doc/{package}/copyright"]
    return [{"license": {"name": name.strip()}} for name in names]


def package_component(root: pathlib.Path, stanza: pathlib.Path) -> dict:
    fields = email.message_from_string(stanza.read_text("utf-8"))
    name, version = fields["Package"], fields["Version"]
    # "source (version)" where they differ from the package's.
    source = (fields["Source"] or name).split()[0]
    purl = (
        f"pkg:deb/debian/{name}@{urllib.parse.quote(version, safe='')}"
        f"?arch={fields['Architecture']}&distro=debian-12"
    )
    sums = stanza.with_name(f"{stanza.name}.md5sums")
    files = sorted({line[34:] for line in sums.read_text().splitlines()}
                   if sums.exists() else ())
    return {
        "type": "library",
        "bom-ref": purl,
        "supplier": {"name": fields["Maintainer"]},
        "name": name,
        "version": version,
        "licenses": licences(root, name),
        "purl": purl,
        "properties": [{"name": "debian:source", "value": source}],
        "components": [file_component(root, one) for one in files],
    }


def bill(root: pathlib.Path, version: str) -> dict:
    stanzas = sorted(path for path in (root / _STATUS).iterdir()
                     if path.suffix != ".md5sums")
    packages = [package_component(root, stanza) for stanza in stanzas]
    subject = f"pkg:generic/attn@{version}"
    made = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": subject,
                "name": "attn",
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "purl": subject,
                "components": [file_component(root, one) for one in _PROGRAMS],
            }
        },
        "components": packages,
        "dependencies": [
            {"ref": subject, "dependsOn": [one["bom-ref"] for one in packages]}
        ],
    }
    text = json.dumps(made, sort_keys=True)
    made["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, text)}"
    return made


def main() -> None:
    root, version = sys.argv[1:]
    json.dump(bill(pathlib.Path(root), version), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
