/tmp/api/bsan/supervisor/symbols.o: supervisor/symbols.c \
 supervisor/symbols.h supervisor/types.h supervisor/debugfile.h \
 supervisor/elf.h supervisor/module.h supervisor/names.h \
 supervisor/proc.h supervisor/scopes.h supervisor/site.h \
 supervisor/symtab.h
supervisor/symbols.h:
supervisor/types.h:
supervisor/debugfile.h:
supervisor/elf.h:
supervisor/module.h:
supervisor/names.h:
supervisor/proc.h:
supervisor/scopes.h:
supervisor/site.h:
supervisor/symtab.h:
