"""Jaeger's query API, answered from the store: its UI and Grafana's data source need no Jaeger behind them."""

from blamespan_collector.jaeger.routes import jaeger_routes

__all__ = ["jaeger_routes"]
