"""What the tests share: fixtures as text, an engine that runs change plans in DuckDB, a generator of queries and commits."""
