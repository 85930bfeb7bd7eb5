/tmp/api/bsan/supervisor/ledger.o: supervisor/ledger.c \
 supervisor/ledger.h supervisor/types.h supervisor/../inject/wire.h \
 supervisor/arena.h supervisor/blocks.h supervisor/ranges.h
supervisor/ledger.h:
supervisor/types.h:
supervisor/../inject/wire.h:
supervisor/arena.h:
supervisor/blocks.h:
supervisor/ranges.h:
