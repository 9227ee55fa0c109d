package xregistry;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.security.MessageDigest;
import java.util.Base64;
import java.util.Iterator;
import javax.crypto.SecretKeyFactory;
import javax.crypto.spec.PBEKeySpec;
import javax.security.sasl.AuthenticationException;
import org.apache.hive.service.auth.PasswdAuthenticationProvider;

/** Lets in who stands in the users file with that password: lines name:iterations:salt:hash (PBKDF2 with HMAC-SHA-256). */
public class UsersFile implements PasswdAuthenticationProvider {
  public void Authenticate(String user, String password) throws AuthenticationException {
    boolean known = false;
    try {
      Iterator lines = Files.readAllLines(Paths.get(System.getProperty("xregistry.users")), StandardCharsets.UTF_8).iterator();
      while (lines.hasNext()) {
        String[] parts = ((String) lines.next()).trim().split(":");
        if (parts.length == 4 && parts[0].equals(user)) {
          byte[] salt = Base64.getDecoder().decode(parts[2]);
          byte[] wanted = Base64.getDecoder().decode(parts[3]);
          char[] given = password == null ? new char[0] : password.toCharArray();
          PBEKeySpec spec = new PBEKeySpec(given, salt, Integer.parseInt(parts[1]), wanted.length * 8);
          byte[] found = SecretKeyFactory.getInstance("PBKDF2WithHmacSHA256").generateSecret(spec).getEncoded();
          known = MessageDigest.isEqual(wanted, found);
        }
      }
    } catch (Exception error) {
      throw new AuthenticationException("The users file cannot be used", error);
    }
    if (!known) {
      throw new AuthenticationException("Unknown user or wrong password");
    }
  }
}
