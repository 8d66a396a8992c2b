#!/usr/bin/env bash
# Prints the rules of deploy/prometheus as PrometheusRule objects:
#
#   deploy/kubernetes/monitoring/prometheus_rules.sh | kubectl apply -n attn -f -
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../common.sh"

for file in "$ATTN_ROOT"/deploy/prometheus/rules/*.yml; do
  cat <<END
---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: attn-$(basename "$file" .yml)
  labels:
    app.kubernetes.io/name: attn
spec:
END
  sed 's/^./  &/' "$file"
done
