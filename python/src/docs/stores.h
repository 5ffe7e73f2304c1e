#pragma once

#include "../docstrings.h"

// The docstrings of key-value stores.

namespace unisono::python::docs {

inline constexpr const char* store = R"(A small key-value store through which processes meet.

MemoryStore, FileStore, TcpStore, EtcdStore and PrefixStore are such stores. Values are bytes; a
str is stored as UTF-8. Every call has a deadline, and raises Timeout, which names the keys that
it waits for, when it passes. Any thread may call.

Attributes
----------
timeout : float
    The seconds of calls that give no timeout, 300 at first.

Methods
-------
set(key, value)
    Sets the value of a key.
get(key, timeout=None)
    Waits until the key exists, and returns its value.
try_get(key)
    Returns the value if the key exists now, otherwise None.
add(key, amount)
    Adds to a decimal counter, and returns the sum.
wait(keys, timeout=None)
    Waits until all keys exist.
compare_set(key, expected, desired)
    Sets the value if it is the expected one.
erase(key)
    Removes a key, and tells whether there was one.
num_keys()
    Returns the number of keys.

Examples
--------
>>> store = unisono.MemoryStore()
>>> store.set("address", "10.0.0.1")
>>> store.get("address")
b'10.0.0.1'
>>> store.add("visits", 2), store.add("visits", 1)
(2, 3)
>>> store.erase("address"), store.try_get("address")
(True, None))";

inline constexpr const char* store_get = R"(Waits until the key exists, and returns its value.

Parameters
----------
key : str
    The name of the value.
timeout : float or timedelta, optional
    The seconds to wait. None stands for those of the store.

Returns
-------
bytes
    The value.

Raises
------
Timeout
    If the key does not exist in time.)";

inline constexpr const char* store_add = R"(Adds to a decimal counter, and returns the sum.

Parameters
----------
key : str
    The name of the counter, which is 0 where the key is new.
amount : int
    The number to add.

Returns
-------
int
    The sum.

Raises
------
InvalidArgument
    If the value is not a number.)";

inline constexpr const char* store_wait = R"(Waits until all keys exist.

Parameters
----------
keys : sequence of str
    The names of the values.
timeout : float or timedelta, optional
    The seconds to wait. None stands for those of the store.

Raises
------
Timeout
    If a key does not exist in time.)";

inline constexpr const char* compare_set = R"(Sets a value if it is the expected one, in one step.

Parameters
----------
key : str
    The name of the value.
expected : bytes or str
    The value that is replaced. b"" also fits a key that does not exist.
desired : bytes or str
    The new value.

Returns
-------
bytes
    The value after the call.)";

inline constexpr const char* memory_store = R"(A store within one process, for ranks that are threads, and for tests.

Examples
--------
>>> store = unisono.MemoryStore()
>>> store.compare_set("leader", "", "first"), store.compare_set("leader", "", "second")
(b'first', b'first'))";

inline constexpr const char* file_store = R"(A store in a file that all processes reach.

The file lies on one host, or in a shared file system with working fcntl locks. It is created if
absent, and stays until somebody removes it.

Parameters
----------
path : str
    The name of the file.

Attributes
----------
path : str
    The name as it was given.

Raises
------
InvalidArgument
    If the file cannot be opened or created.

Examples
--------
>>> import os, tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     store = unisono.FileStore(os.path.join(folder, "meeting"))
...     store.set("address", "10.0.0.1")
...     store.num_keys()
1)";

inline constexpr const char* tcp_store = R"(A store that one process serves and the others reach over TCP.

The server listens on exactly the given address. Clients wait for it until the deadline.

Parameters
----------
host : str
    The address of the server.
port : int
    The port of the server; 0 lets it take any free one.
is_server : bool, default False
    Whether this process holds the data. A single one does.
timeout : float or timedelta, optional
    The seconds of connecting, and of the store's calls. None stands for 300.
token : str, optional
    The secret of the job. None stands for UNISONO_TOKEN. An address that is not loopback needs one,
    or "none".
listen_fd : int, default -1
    For the server, a socket that is bound to this address and listens (listener.detach()).
    The store takes it over and closes it, even if it raises.

Attributes
----------
host : str
    The address as it was given.
port : int
    The port on which the server listens.

Raises
------
InvalidArgument
    For an address that is not loopback without a token, and for a port that is none.
Timeout
    If the server does not answer in time.
ProtocolError
    If the server is not a store, or has another token.

Examples
--------
>>> server = unisono.TcpStore("127.0.0.1", 0, is_server=True)
>>> client = unisono.TcpStore("127.0.0.1", server.port)
>>> client.set("address", "10.0.0.1")
>>> server.get("address")
b'10.0.0.1')";

inline constexpr const char* etcd_store = R"(A store whose keys lie in etcd 3.4 or newer, which all processes reach at the same URL.

All keys are below the prefix at the end of the URL. The last process that closes its store
removes them. If all processes have died, they vanish after ten minutes.

Parameters
----------
url : str
    "etcd://host:port,host:port/prefix"; with etcds:// connections are encrypted.
timeout : float or timedelta, optional
    The seconds in which etcd is reached, and of the store's calls. None stands for 300.

Attributes
----------
url : str
    The URL as it was given.

Raises
------
InvalidArgument
    For a URL of another form.
Timeout
    If none of the endpoints, which it names, answers.
BackendUnavailable
    If the library was built without libcurl.

Examples
--------
These need an etcd at that address:

>>> store = unisono.EtcdStore("etcd://10.0.0.1:2379/train-17")  # doctest: +SKIP
>>> store.set("address", "10.0.0.1")  # doctest: +SKIP)";

inline constexpr const char* prefix_store = R"(Another store seen under a prefix, so that several users share it.

Parameters
----------
prefix : str
    The text before each key; a "/" follows it.
store : Store
    The other store, which is kept alive. Its timeout is taken over.

Examples
--------
>>> store = unisono.MemoryStore()
>>> unisono.PrefixStore("train", store).set("address", "10.0.0.1")
>>> store.get("train/address")
b'10.0.0.1')";

}  // namespace unisono::python::docs
