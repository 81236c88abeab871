"""Engines that decode, the runtimes that they compute with, and exports."""
