#!/usr/bin/env python3
"""The checks of rules and dashboards find what they are for."""

import copy
import json
import pathlib
import tempfile
import unittest

import dashboards
import rules_tested
import runbook
from rule_files import Rule, Scenario, metric_names, read_rules, read_scenarios

RULES = """\
groups:
  - name: one
    rules:
      - record: job:a:sum
        expr: |
          sum by (job) (a)
            / 2
      - alert: TooMany
        expr: job:a:sum > 1
        labels:
          severity: page
        annotations:
          summary: "{{ $labels.job }}"
          description: >-
            Look.
"""
TESTS = """\
tests:
  - name: idle
    promql_expr_test:
      - expr: ALERTS
        eval_time: 5m
        exp_samples: []
  - name: 'trouble: much'
    promql_expr_test:
      - expr: round(job:a:sum, 0.1)
        eval_time: 5m
        exp_samples:
          - labels: '{job="x"}'
            value: 2
"""
FIRES = ('ALERTS{alertname="TooMany",alertstate="firing",job="x",'
         'severity="page"}')


def written(text, read):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "file.yml"
        path.write_text(text, encoding="utf-8")
        return read(path)


class MetricNamesTest(unittest.TestCase):
    def test_labels_functions_and_words_are_no_metrics(self):
        self.assertEqual(
            metric_names('histogram_quantile(0.5, sum by (le, job) '
                         '(rate(a_bucket{code=~"x|y{2}",b!=\'c\'}[5m] offset 1h)))'
                         ' / on (job) group_left (node) job:b:sum unless c > 1e3'),
            {"a_bucket", "job:b:sum", "c"})

    def test_a_name_without_matchers_is_one(self):
        self.assertEqual(metric_names("1 - up == bool 0 or vector(0)"), {"up"})


class RuleFilesTest(unittest.TestCase):
    def test_rules_are_read_with_their_expressions(self):
        record, alert = written(RULES, read_rules)
        self.assertEqual((record.kind, record.name), ("record", "job:a:sum"))
        self.assertEqual(record.expression, "sum by (job) (a) / 2")
        self.assertEqual((alert.kind, alert.name), ("alert", "TooMany"))
        self.assertEqual(alert.expression, "job:a:sum > 1")
        self.assertEqual(alert.severity, "page")
        self.assertIn("Look.", alert.annotations)

    def test_scenarios_are_read_with_what_they_ask(self):
        idle, trouble = written(TESTS, read_scenarios)
        self.assertEqual((idle.name, idle.asked), ("idle", [("ALERTS", [])]))
        self.assertEqual(trouble.asked,
                         [("round(job:a:sum, 0.1)", ['{job="x"}'])])

    def test_a_scenario_that_wants_a_sample_of_a_rule_stands_alone(self):
        record, alert = written(RULES, read_rules)
        scenarios = written(TESTS, read_scenarios)
        idle, trouble = scenarios
        self.assertFalse(rules_tested.wants(idle, record))
        self.assertTrue(rules_tested.wants(trouble, record))
        self.assertFalse(rules_tested.wants(trouble, alert))
        alone = rules_tested.alone(TESTS, scenarios, trouble)
        self.assertTrue(alone.startswith("tests:\n"))
        self.assertEqual(written(alone, read_scenarios), [trouble])

    def test_a_broken_rule_is_the_only_thing_that_changes(self):
        record, _ = written(RULES, read_rules)
        broken = rules_tested.without(RULES, record)
        self.assertEqual(written(broken, read_rules)[0].expression,
                         "vector(1) > 2")
        self.assertEqual(written(broken, read_rules)[1].expression,
                         "job:a:sum > 1")


class RulesTestedTest(unittest.TestCase):
    def setUp(self):
        self.alert = Rule("alert", "TooMany", "a > 1", (0, 1),
                          "summary: {{ $labels.job }} description: x", "page")
        self.scenarios = [Scenario(name, [("ALERTS", [])])
                          for name in rules_tested.SCENARIOS]
        self.scenarios.append(Scenario("trouble", [("ALERTS", [FIRES])]))

    def faults(self):
        return list(rules_tested.rule_faults(self.alert, self.scenarios))

    def test_an_alert_that_is_tested_has_no_faults(self):
        self.assertEqual(self.faults(), [])

    def test_a_missing_scenario_is_found(self):
        del self.scenarios[2]
        self.assertEqual(self.faults(), ["no test of it is called 'restart'"])

    def test_another_alerts_test_does_not_count(self):
        self.scenarios[0].asked = [('ALERTS{alertname="Other"}', [])]
        self.assertEqual(self.faults(), ["no test of it is called 'idle'"])

    def test_an_alert_that_never_fires_is_found(self):
        self.scenarios.pop()
        self.assertEqual(self.faults(), ["no test sees it fire"])

    def test_an_alert_that_fires_when_all_is_well_is_found(self):
        self.scenarios[1].asked = [("ALERTS", [FIRES])]
        self.assertEqual(self.faults(), ["it fires although all is well"])

    def test_a_label_that_the_alert_has_not_is_found(self):
        self.alert.annotations += " {{ $labels.instance }}"
        self.assertEqual(
            self.faults(),
            ["its annotations name the label instance, which it has not"])

    def test_a_recorded_name_is_asked_for_by_itself_or_by_pattern(self):
        rule = Rule("record", "job:a:sum")
        for expression in ("round(job:a:sum, 1)", '{__name__=~"job:a:.*|b"}'):
            self.assertTrue(rules_tested.asks_for(expression, rule), expression)
        for expression in ("job:a:summary", "ALERTS", '{__name__=~"a:sum"}'):
            self.assertFalse(rules_tested.asks_for(expression, rule), expression)


class DashboardsTest(unittest.TestCase):
    """Each changes the shipped dashboard, which has no faults, by one mistake."""

    def setUp(self):
        root = pathlib.Path(__file__).parents[2]
        self.path = root / "deploy/grafana/dashboards/overview.json"
        self.whole = json.loads(self.path.read_text(encoding="utf-8"))
        self.panel = next(index for index, panel in enumerate(self.whole["panels"])
                          if panel["type"] == "timeseries")

    def faults(self, change):
        changed = copy.deepcopy(self.whole)
        change(changed, changed["panels"][self.panel])
        text = dashboards.lay_out(changed) + "\n"
        return list(dashboards.dashboard_faults(self.path, text))

    def test_the_shipped_one_has_none(self):
        self.assertEqual(self.faults(lambda board, panel: None), [])

    def test_each_mistake_is_found(self):
        def other_servers(board, panel):
            panel["targets"][0]["expr"] = "sum(up{job=\"attn\"})"

        mistakes = {
            "description has no": lambda board, panel: panel.update(
                description="Calls per second."),
            "no unit": lambda board, panel:
                panel["fieldConfig"]["defaults"].pop("unit"),
            "overlaps": lambda board, panel: panel.update(
                gridPos=board["panels"][self.panel + 1]["gridPos"]),
            "wider than the page": lambda board, panel: panel.update(
                gridPos={"x": 20, "y": 900, "w": 8, "h": 8}),
            "two panels have one id": lambda board, panel: panel.update(id=1),
            "no queries": lambda board, panel: panel.update(targets=[]),
            "not of the variable's data source": lambda board, panel:
                panel.update(datasource={"type": "prometheus", "uid": "mine"}),
            "uses the variable servers": lambda board, panel:
                panel.update(title="$servers"),
            "no link": lambda board, panel: board.update(links=[]),
            "does not find it": lambda board, panel: board.update(tags=[]),
            "expected attn-overview": lambda board, panel: board.update(uid="x"),
            "is of all servers": other_servers,
        }
        for words, change in mistakes.items():
            found = " ".join(self.faults(change))
            self.assertIn(words, found)

    def test_a_file_that_is_laid_out_otherwise_is_found(self):
        text = json.dumps(self.whole)
        self.assertEqual(list(dashboards.dashboard_faults(self.path, text)),
                         ["not laid out as dashboards.py --write does it"])


class RunbookTest(unittest.TestCase):
    """Each changes the shipped runbook, which has no faults, by one mistake."""

    def setUp(self):
        self.root = pathlib.Path(__file__).parents[2]
        self.text = (self.root / "deploy/RUNBOOK.md").read_text(encoding="utf-8")
        self.rules = [rule for path in
                      (self.root / "deploy/prometheus/rules").glob("*.yml")
                      for rule in read_rules(path)]

    def faults(self, text):
        return list(runbook.faults(text, self.rules, self.root))

    def test_every_alert_has_its_section(self):
        self.assertGreater(len(self.rules), 0)
        self.assertEqual(self.faults(self.text), [])

    def test_each_mistake_is_found(self):
        mistakes = {
            "0 sections are called AttnDown": ("### AttnDown", "### "),
            "2 sections are called AttnDown": ("### AttnNoTargets", "### AttnDown"),
            "there is no alert AttnSlow": ("## Alerts", "### AttnSlow\n\nx\n\n## Alerts"),
            "there is no deploy/go.sh": ("deploy/run.sh", "deploy/go.sh"),
            "there is no prometheus/READ.md": ("prometheus/README.md",
                                               "prometheus/READ.md"),
        }
        for words, (old, new) in mistakes.items():
            self.assertIn(words, " ".join(self.faults(self.text.replace(old, new))))

    def test_a_section_without_words_is_found(self):
        begin = self.text.index("### AttnDown") + len("### AttnDown")
        end = self.text.index("### AttnNoTargets")
        self.assertEqual(self.faults(self.text[:begin] + "\n\n" + self.text[end:]),
                         ["AttnDown says nothing"])


if __name__ == "__main__":
    unittest.main()
