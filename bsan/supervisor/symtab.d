/tmp/api/bsan/supervisor/symtab.o: supervisor/symtab.c \
 supervisor/symtab.h supervisor/types.h supervisor/names.h
supervisor/symtab.h:
supervisor/types.h:
supervisor/names.h:
