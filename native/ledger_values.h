/* What a ledger holds as Python values, for the types that have one. */
#ifndef STEPSCOPE_LEDGER_VALUES_H
#define STEPSCOPE_LEDGER_VALUES_H

#include "ledger.h"
#include "module.h"

PyObject *ledger_totals_dict(const LedgerTotals *totals);
PyObject *ledger_entry_tuple(const LedgerEntry *entry);
/* Entries that were booked before then. */
PyObject *ledger_live_list(const Ledger *ledger, int64_t before_ns);

#endif
