// slots
