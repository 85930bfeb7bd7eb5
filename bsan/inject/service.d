/tmp/api/bsan/inject/service.o: inject/service.c inject/blob.h \
 inject/wire.h
inject/blob.h:
inject/wire.h:
