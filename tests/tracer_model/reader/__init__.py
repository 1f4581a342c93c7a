"""Tests of the language model that reads runs."""
