"""The page: stored runs for people to look at, served beside the receivers or written as one file."""

from blamespan_collector.page.application import page_application

__all__ = ["page_application"]
