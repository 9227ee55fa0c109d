"""The file of the read model: its tables (`sqliteschema`), where it is (`place`), and what fills them (`build`, from `delta`)."""
