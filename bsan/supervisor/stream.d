/tmp/api/bsan/supervisor/stream.o: supervisor/stream.c \
 supervisor/stream.h supervisor/../inject/wire.h supervisor/types.h \
 supervisor/ledger.h
supervisor/stream.h:
supervisor/../inject/wire.h:
supervisor/types.h:
supervisor/ledger.h:
