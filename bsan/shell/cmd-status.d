/tmp/api/bsan/shell/cmd-status.o: shell/cmd-status.c \
 shell/../supervisor/json.h shell/../supervisor/types.h \
 shell/../supervisor/units.h shell/command.h \
 shell/../supervisor/session.h shell/../supervisor/process.h \
 shell/../supervisor/cfi.h shell/../supervisor/../inject/wire.h \
 shell/../supervisor/ledger.h shell/../supervisor/marks.h \
 shell/../supervisor/module.h shell/../supervisor/plant.h \
 shell/../supervisor/stream.h shell/../supervisor/symbols.h \
 shell/../supervisor/sites.h shell/../supervisor/types.h \
 shell/processes.h shell/reporting.h shell/../supervisor/profile.h \
 shell/usage.h shell/../supervisor/process.h
shell/../supervisor/json.h:
shell/../supervisor/types.h:
shell/../supervisor/units.h:
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
shell/processes.h:
shell/reporting.h:
shell/../supervisor/profile.h:
shell/usage.h:
shell/../supervisor/process.h:
