/tmp/api/bsan/inject/walk.o: inject/walk.c inject/blob.h inject/wire.h
inject/blob.h:
inject/wire.h:
