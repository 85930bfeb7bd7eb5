/tmp/api/bsan/supervisor/arch/decode.o: supervisor/arch/decode.c \
 supervisor/arch/decode.h
supervisor/arch/decode.h:
