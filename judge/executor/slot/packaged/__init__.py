"""Programs of packages that run beside submissions: validators, graders, and what checks ask."""
