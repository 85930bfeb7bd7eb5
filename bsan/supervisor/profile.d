/tmp/api/bsan/supervisor/profile.o: supervisor/profile.c \
 supervisor/profile.h supervisor/types.h supervisor/ledger.h
supervisor/profile.h:
supervisor/types.h:
supervisor/ledger.h:
