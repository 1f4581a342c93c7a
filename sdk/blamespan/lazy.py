"""Properties that are worked out once, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy_property(Generic[T]):  # noqa: N801 - used as a decorator, like `property`
    """Works out an attribute when it is first read, as `functools.cached_property` does from Python 3.12 on.

    That of Python 3.11 holds a lock meanwhile, one for all objects of the class. A process that is forked then would
    wait for it for ever. Here two threads that read at once may both work it out; the last one's result stays.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy_property[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> lazy_property[T] | T:
        if instance is None:
            return self
        value = self._function(instance)
        instance.__dict__[self._name] = value  # found there from now on: this is no data descriptor
        return value
