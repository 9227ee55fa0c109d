"""A catalog that people look at: pages of HTML over the read model, one set of templates and two ways out.

`lakehouse serve` shows them below `/ui/` (`Site`), `lakehouse site` writes them as files that any web server or object store
hands out (`write_site`). A page is a function of a snapshot and of its path (`addresses`), so both ways give the same pages, and
links are relative in both. Every page reads without script; what the script adds is search as one types, and copy buttons.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from lakehouse.site.pagecontext import Page as Page
    from lakehouse.site.served import Site as Site
    from lakehouse.site.static import Written as Written
    from lakehouse.site.static import write_site as write_site

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"pagecontext": ["Page"], "served": ["Site"], "static": ["Written", "write_site"]}
)
