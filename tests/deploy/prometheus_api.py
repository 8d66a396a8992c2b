"""Prometheus' HTTP API. Standard library only."""

import json
import urllib.error
import urllib.parse
import urllib.request


def ask(url, path, **parameters):
    """The answer as JSON, also where it is a refusal."""
    query = urllib.parse.urlencode(parameters)
    try:
        with urllib.request.urlopen(f"{url}{path}?{query}", timeout=30) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        return json.load(error)
