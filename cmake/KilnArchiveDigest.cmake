# cmake -DARCHIVES=<file>,<file>… -DOUTPUT=<file.cpp> -P KilnArchiveDigest.cmake
#
# Writes a source file that knows the digest of static libraries: what a build of Kiln generates
# depends on their code, and a cache must not mix two builds.

string(REPLACE "," ";" archives "${ARCHIVES}")
set(all "")
foreach (archive IN LISTS archives)
  file(SHA256 "${archive}" digest)
  string(APPEND all "${digest}")
endforeach ()
string(SHA256 digest "${all}")

file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT
"namespace kiln {
extern const char* const kGeneratorDigest;
const char* const kGeneratorDigest = \"${digest}\";
}  // namespace kiln
")
