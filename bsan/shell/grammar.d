/tmp/api/bsan/shell/grammar.o: shell/grammar.c shell/grammar.h \
 shell/../supervisor/types.h
shell/grammar.h:
shell/../supervisor/types.h:
