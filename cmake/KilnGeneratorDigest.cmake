# cmake -DFILES=<file>,<file>… -DOUTPUT=<file.cpp> -P KilnGeneratorDigest.cmake
#
# Writes a source file that knows the digest of static libraries and sources: what a build of Kiln
# generates depends on their code, and a cache must not mix two builds.

string(REPLACE "," ";" files "${FILES}")
set(all "")
foreach (path IN LISTS files)
  file(SHA256 "${path}" digest)
  string(APPEND all "${digest}")
endforeach ()
string(SHA256 digest "${all}")

file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT
"namespace kiln {
extern const char* const kGeneratorDigest;
const char* const kGeneratorDigest = \"${digest}\";
}  // namespace kiln
")
