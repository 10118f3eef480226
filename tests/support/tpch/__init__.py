"""TPC-H: its data at a scale, rounds of change after its refresh functions, its 22 queries as stream tables."""
