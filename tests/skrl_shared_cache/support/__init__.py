"""What the tests of the cache share: one code for both skrl lines, models with an uncached twin, an environment."""
