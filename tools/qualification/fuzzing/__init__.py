"""Parts of `tools.qualification.fuzz`: samples, mutations, readers, limited child; `guided`."""
