// topology
