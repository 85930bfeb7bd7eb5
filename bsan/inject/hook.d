/tmp/api/bsan/inject/hook.o: inject/hook.c inject/hook.h inject/blob.h \
 inject/wire.h inject/ring.h
inject/hook.h:
inject/blob.h:
inject/wire.h:
inject/ring.h:
