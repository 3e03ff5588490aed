"""Prometheus and Grafana for dcurate: their configuration, alert rules, a dashboard, and how they are started."""
