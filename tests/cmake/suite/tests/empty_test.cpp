// No TEST_CASE: a suite that runs nothing must not be green.
