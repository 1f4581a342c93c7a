"""Figures of merit, and the runs that they are measured on."""
