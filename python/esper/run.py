"""The record of a run as numpy columns."""
import json
from ctypes import byref, c_char_p, c_size_t, c_uint32

import numpy as np

from .library import Handle, Invalid, address, exclusive, lib, path_bytes, text

_INTEGERS, _REALS, _TEXTS = 1, 2, 3


class Run(Handle):
    """A run that trains, has ended or crashed, by its directory or its name under runs/. Nothing of it is changed.

    run["round"]            a table, as a dictionary of columns
    run.query("select ...") the answer to a question in SQL, as columns
    run.tables              the tables and their columns; run.help(table) says what those mean
    run.config              every key and its value
    """

    _close = "esper_run_close"

    def __init__(self, source):
        Handle.__init__(self)
        self._open("esper_run_open", path_bytes(source))
        self.path = text("esper_run_path", self._pointer)

    @exclusive
    def query(self, sql):
        """A dictionary of columns. A missing number is nan, so that its column is one of floats; a missing text None."""
        rows, columns = c_size_t(), c_uint32()
        if "\0" in sql:
            raise Invalid("the question has a zero byte in it")
        self._call(lib.esper_run_ask, sql.encode(), byref(rows), byref(columns))
        return {text("esper_run_column_name", self._pointer, i): self._column(i, rows.value)
                for i in range(columns.value)}

    def _column(self, column, rows):
        kind = lib.esper_run_column_kind(self._pointer, column)
        if kind == _TEXTS:
            texts = (c_char_p * rows)()
            self._call(lib.esper_run_texts, column, texts, rows)
            return np.array([None if item is None else item.decode(errors="replace") for item in texts], object)
        values = np.empty(rows, np.int64 if kind == _INTEGERS else np.float64)
        self._call(lib.esper_run_integers if kind == _INTEGERS else lib.esper_run_reals, column, address(values), rows)
        return values

    @property
    def tables(self):
        listed = self.query("select m.name as name, c.name as item from sqlite_master m, pragma_table_info(m.name) c "
                            "where m.type = 'table' and substr(m.name, 1, 7) <> 'sqlite_' order by m.rowid, c.cid")
        found = {}
        for table, column in zip(listed["name"], listed["item"]):
            found.setdefault(table, []).append(column)
        return found

    def __getitem__(self, table):
        if table not in self.tables:
            raise KeyError(f"{table}: the record has {', '.join(self.tables)}")
        return self.query('select * from "%s"' % table.replace('"', '""'))

    def help(self, table):
        """What the columns of a table mean, with their units."""
        if table not in self.tables:
            raise KeyError(f"{table}: the record has {', '.join(self.tables)}")
        return {column: text("esper_run_help", table.encode(), column.encode()) for column in self.tables[table]}

    @property
    def config(self):
        return json.loads(self.query("select configuration from run")["configuration"][0])

    def __repr__(self):
        return f"esper.Run({self.path!r})"
