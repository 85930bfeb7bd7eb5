/tmp/api/bsan/unit/test_api.o: tests/unit/test_api.c \
 tests/unit/../../supervisor/api.h tests/unit/../../supervisor/process.h \
 tests/unit/../../supervisor/cfi.h \
 tests/unit/../../supervisor/../inject/wire.h \
 tests/unit/../../supervisor/types.h tests/unit/../../supervisor/ledger.h \
 tests/unit/../../supervisor/marks.h tests/unit/../../supervisor/module.h \
 tests/unit/../../supervisor/plant.h tests/unit/../../supervisor/stream.h \
 tests/unit/../../supervisor/symbols.h \
 tests/unit/../../supervisor/marks.h \
 tests/unit/../../supervisor/session.h tests/unit/test.h
tests/unit/../../supervisor/api.h:
tests/unit/../../supervisor/process.h:
tests/unit/../../supervisor/cfi.h:
tests/unit/../../supervisor/../inject/wire.h:
tests/unit/../../supervisor/types.h:
tests/unit/../../supervisor/ledger.h:
tests/unit/../../supervisor/marks.h:
tests/unit/../../supervisor/module.h:
tests/unit/../../supervisor/plant.h:
tests/unit/../../supervisor/stream.h:
tests/unit/../../supervisor/symbols.h:
tests/unit/../../supervisor/marks.h:
tests/unit/../../supervisor/session.h:
tests/unit/test.h:
