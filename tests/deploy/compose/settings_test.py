#!/usr/bin/env python3
"""settings.py finds what it is for: the shipped file with one thing wrong.

usage: settings_test.py COMPOSE_FILE
"""

import copy
import pathlib
import sys
import unittest

import yaml

import settings

path = pathlib.Path(sys.argv.pop())
shipped = yaml.safe_load(path.read_text())


class SettingsTest(unittest.TestCase):

    def faults_after(self, change):
        compose = copy.deepcopy(shipped)
        change(compose["services"])
        return list(settings.faults(compose, path.parent))

    def expect(self, words, change):
        found = self.faults_after(change)
        self.assertTrue(any(words in fault for fault in found), found)

    def test_the_shipped_file_has_no_fault(self):
        self.assertEqual(self.faults_after(lambda services: None), [])

    def test_a_port_on_all_addresses(self):
        for port in ("8001:8001", "0.0.0.0:8001:8001"):
            self.expect("is not on 127.0.0.1",
                        lambda services: services["haproxy"]["ports"].append(port))

    def test_a_mount_of_nothing(self):
        self.expect("is not there", lambda services: services["haproxy"].update(
            volumes=["./haproxies:/usr/local/etc/haproxy:ro"]))

    def test_a_mount_that_can_be_written(self):
        self.expect("can be written", lambda services: services["haproxy"].update(
            volumes=["./haproxy:/usr/local/etc/haproxy"]))

    def test_an_image_without_a_version(self):
        self.expect("has no version", lambda services: services["haproxy"].update(
            image="docker.io/library/haproxy:latest"))

    def test_what_is_not_locked(self):
        for key, words in (("cap_drop", "capabilities"), ("read_only", "written"),
                           ("security_opt", "privileges"), ("mem_limit", "memory")):
            self.expect(words, lambda services: services["attn-2"].pop(key))

    def test_limits_above_the_memory(self):
        self.expect("more than its memory",
                    lambda services: services["attn-1"].update(mem_limit="1g"))

    def test_a_stop_that_is_cut_off(self):
        for period in (None, "10s", "40s"):
            self.expect("killed while it stops", lambda services:
                        services["attn-1"].update(stop_grace_period=period))

    def test_the_address_of_another(self):
        self.expect("tells its clients", lambda services: services["attn-1"][
            "environment"].update(ATTN_ADVERTISE_ADDRESS="attn-2:8001"))

    def test_a_server_that_nobody_knows(self):
        def rename(services):
            services["attn-9"] = services.pop("attn-2")
        self.expect("does not scrape", rename)
        self.expect("haproxy.cfg has no server attn-9:8001", rename)


if __name__ == "__main__":
    unittest.main()
