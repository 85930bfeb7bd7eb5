/tmp/api/bsan/inject/api.o: inject/api.c inject/hook.h inject/blob.h \
 inject/wire.h inject/ring.h
inject/hook.h:
inject/blob.h:
inject/wire.h:
inject/ring.h:
