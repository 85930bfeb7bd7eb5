/tmp/api/bsan/supervisor/infer.o: supervisor/infer.c supervisor/infer.h \
 supervisor/../inject/wire.h supervisor/types.h supervisor/arch/decode.h
supervisor/infer.h:
supervisor/../inject/wire.h:
supervisor/types.h:
supervisor/arch/decode.h:
