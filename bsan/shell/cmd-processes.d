/tmp/api/bsan/shell/cmd-processes.o: shell/cmd-processes.c \
 shell/processes.h shell/../supervisor/json.h shell/../supervisor/types.h \
 shell/command.h shell/../supervisor/session.h \
 shell/../supervisor/process.h shell/../supervisor/cfi.h \
 shell/../supervisor/../inject/wire.h shell/../supervisor/ledger.h \
 shell/../supervisor/marks.h shell/../supervisor/module.h \
 shell/../supervisor/plant.h shell/../supervisor/stream.h \
 shell/../supervisor/symbols.h shell/../supervisor/sites.h \
 shell/../supervisor/types.h shell/reporting.h \
 shell/../supervisor/profile.h
shell/processes.h:
shell/../supervisor/json.h:
shell/../supervisor/types.h:
shell/command.h:
shell/../supervisor/session.h:
shell/../supervisor/process.h:
shell/../supervisor/cfi.h:
shell/../supervisor/../inject/wire.h:
shell/../supervisor/ledger.h:
shell/../supervisor/marks.h:
shell/../supervisor/module.h:
shell/../supervisor/plant.h:
shell/../supervisor/stream.h:
shell/../supervisor/symbols.h:
shell/../supervisor/sites.h:
shell/../supervisor/types.h:
shell/reporting.h:
shell/../supervisor/profile.h:
