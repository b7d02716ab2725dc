// cluster
