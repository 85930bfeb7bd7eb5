/tmp/api/bsan/shell/usage.o: shell/usage.c shell/usage.h \
 shell/../supervisor/process.h shell/../supervisor/cfi.h \
 shell/../supervisor/../inject/wire.h shell/../supervisor/types.h \
 shell/../supervisor/ledger.h shell/../supervisor/marks.h \
 shell/../supervisor/module.h shell/../supervisor/plant.h \
 shell/../supervisor/stream.h shell/../supervisor/symbols.h \
 shell/../supervisor/proc.h
shell/usage.h:
shell/../supervisor/process.h:
shell/../supervisor/cfi.h:
shell/../supervisor/../inject/wire.h:
shell/../supervisor/types.h:
shell/../supervisor/ledger.h:
shell/../supervisor/marks.h:
shell/../supervisor/module.h:
shell/../supervisor/plant.h:
shell/../supervisor/stream.h:
shell/../supervisor/symbols.h:
shell/../supervisor/proc.h:
