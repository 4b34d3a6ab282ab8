# cmake -DNAME=<constant> -DFILES=<file>,<file>… -DOUTPUT=<file.cpp> -P KilnWriteDigest.cmake
#
# Writes a source file that defines `kiln::<constant>`, the digest of static libraries and sources. The
# code that Kiln generates depends on them, and a cache must not mix two builds.

string(REPLACE "," ";" files "${FILES}")
set(all "")
foreach (path IN LISTS files)
  file(SHA256 "${path}" digest)
  string(APPEND all "${digest}")
endforeach ()
string(SHA256 digest "${all}")

file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT
"namespace kiln {
extern const char* const ${NAME};
const char* const ${NAME} = \"${digest}\";
}  // namespace kiln
")
