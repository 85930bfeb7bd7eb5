/tmp/api/bsan/inject/entry.o: inject/entry.S
