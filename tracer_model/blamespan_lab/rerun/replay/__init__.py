"""Runs run again with one step put right: labels that are verified by what happens, and replay of users' programs."""
