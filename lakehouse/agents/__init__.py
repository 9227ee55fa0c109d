"""The catalog for programs that write programs: tools, resources and prompts of the Model Context Protocol (MCP).

`questions` answers out of the read model, and keeps answers short; `mcpserver` offers them by the SDK `mcp`. Read only; no Spark,
no Java. Texts of documents are data: answers say so, and no text of a document becomes part of the instructions.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"questions": ["CatalogQuestions"], "mcpserver": ["make_mcp_server"]}
)
