"""Nexmark: an auction house as seeded events, rounds of change, and its queries over tables as stream tables."""
