/tmp/api/bsan/inject/ring.o: inject/ring.c inject/ring.h inject/blob.h \
 inject/wire.h
inject/ring.h:
inject/blob.h:
inject/wire.h:
