/tmp/api/bsan/supervisor/ranges.o: supervisor/ranges.c \
 supervisor/ranges.h supervisor/types.h
supervisor/ranges.h:
supervisor/types.h:
